#pragma once

// Tests look inside: what is private to rota has its names in rota::test, too.

namespace rota::internal {}

namespace rota::test {
using namespace internal;  // NOLINT(google-build-using-namespace): that is what this file is for
}
