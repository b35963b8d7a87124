"""A run whose loader has state_dict(), and whose batches are dicts."""


class Run:
    def __iter__(self):
        return iter(self.loader)

    def ids(self, batch):
        return batch["id"].tolist()

    def state(self):
        return self.loader.state_dict()
