"""What stores and web servers answer in the place of data: told at once, with what they say, and what to do."""

import contextlib
import http.server
import json
import os
import threading

import pytest
from runs import python

CREDENTIALS = "check the credentials"


def error(code, message="it says no"):
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"


def page(text):
    return f"<!doctype html><html><title>{text}</title></html>"


# Of a bucket: status, content type, body; words that the error has, and words that it has not.
ANSWERS = {
    "denied": (403, "application/xml", error("AccessDenied", "Access Denied."), ["AccessDenied: Access Denied.", CREDENTIALS], []),
    "silent": (403, "application/xml", "", ["status 403", CREDENTIALS], []),
    "key": (403, "application/xml", error("InvalidAccessKeyId", "no such key"), ["no such access key", "no such key"], []),
    "signature": (403, "application/xml", error("SignatureDoesNotMatch"), ["the secret key is not that"], []),
    "clock": (403, "application/xml", error("RequestTimeTooSkewed"), ["set this machine's clock"], [CREDENTIALS]),
    "archived": (403, "application/xml", error("InvalidObjectState", "not valid for the storage class"), ["restore it first", "storage class"], [CREDENTIALS]),
    "oss": (403, "application/xml", error("SecondLevelDomainForbidden"), ["in the host's name", "addressing_style"], [CREDENTIALS]),
    "cos": (403, "application/xml", error("PathStyleDomainForbidden"), ["in the host's name"], [CREDENTIALS]),
    "obs": (400, "application/xml", error("VirtualHostDomainRequired"), ["in the host's name"], [CREDENTIALS]),
    "kms": (400, "application/xml", error("KMS.DisabledException", "key is disabled"), ["KMS.DisabledException: key is disabled", "encrypted with"], [CREDENTIALS]),
    "ssec": (400, "application/xml", error("InvalidRequest", "The object was stored using a form of Server Side Encryption."), ["Server Side Encryption"], [CREDENTIALS]),
    "payer": (403, "application/xml", error("AccessDenied", "Bucket is a requester pays bucket"), ["requester pays"], []),
    "quota": (403, "application/xml", error("QuotaExceeded", "monthly traffic"), ["QuotaExceeded: monthly traffic"], [CREDENTIALS]),
    "legal": (451, "application/xml", error("UnavailableForLegalReasons"), ["status 451, UnavailableForLegalReasons"], [CREDENTIALS]),
    "frozen": (409, "application/xml", error("BucketFrozen", "in arrears"), ["BucketFrozen: in arrears"], [CREDENTIALS]),
    "console": (403, "application/xml", error("AccessDenied", "S3 API Request made to Console port."), ["Console port"], []),
    "page": (200, "text/html; charset=utf-8", page("console"), ["a page for people", "AWS_ENDPOINT_URL"], []),
    "login": (401, "text/html", page("log in"), ["status 401"], ["doctype", "log in"]),
    "mirror": (403, "application/xml", error("AccessDenied", "{Authorization}"), ["status 403, AccessDenied;"], ["AWS4", "Credential"]),
    "long": (403, "application/xml", error("AccessDenied", "x" * 5000), ["xxx"], ["x" * 300]),
    "control": (403, "application/xml", error("AccessDenied", "a &#27;[31mred"), ["AccessDenied"], ["\x1b"]),
    "json": (403, "application/json", '{"message": "no"}', ["status 403"], []),
    "moved": (301, "application/xml", error("PermanentRedirect", "in eu-west-1"), ["PermanentRedirect: in eu-west-1", "set AWS_REGION"], [CREDENTIALS]),
    "token": (400, "application/xml", error("ExpiredToken", "has expired"), ["ExpiredToken: has expired", "session token is over"], []),
    "nowhere": (404, "application/xml", error("NoSuchBucket", "does not exist"), ["NoSuchBucket: does not exist", "check its name"], [CREDENTIALS]),
    "unknown": (501, "application/xml", error("NotImplemented", "of a header"), ["NotImplemented: of a header"], [CREDENTIALS]),
    "method": (405, "application/xml", error("MethodNotAllowed", "not here"), ["MethodNotAllowed: not here"], [CREDENTIALS]),
    "account": (403, "application/xml", error("AccountProblem", "unpaid"), ["AccountProblem: unpaid"], [CREDENTIALS]),
}
# The same of a path on a web server.
PAGES = {
    "gated": (401, "text/plain", "Access to dataset x/y is restricted. Please log in.", ["status 401: Access to dataset x/y is restricted", "no credentials"], []),
    "blocked": (403, "text/html", page("blocked"), ["status 403", "signed URL"], ["blocked</title>"]),
    "signin": (200, "text/html", page("log in"), ["a page for people"], []),
    "gone": (410, "text/plain", "moved away", ["status 410: moved away"], ["credentials"]),
    "teapot": (418, "text/plain", "short\nand stout", ["status 418: short"], ["stout"]),
}

ASK = """
import json, sys, time
import rota
told = {}
for url in sys.argv[1:]:
    begun = time.monotonic()
    try: told[url] = ["opened " + str(rota.open(url, "lines")), 0]
    except rota.Error as error: told[url] = [str(error), time.monotonic() - begun]
print(json.dumps(told))
"""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        first, _, rest = self.path.lstrip("/").partition("?")[0].partition("/")
        self.asked.append(self.headers.get("Authorization", ""))
        status, kind, body, *_ = PAGES[rest.partition(".")[0]] if first == "web" else ANSWERS[first]
        body = body.replace("{Authorization}", self.headers.get("Authorization", "")).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET


@contextlib.contextmanager
def serving():
    """What is asked with, and the environment that leads there."""
    asked = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Asked", (Handler,), {"asked": asked}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    at = f"http://127.0.0.1:{server.server_port}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment = kept | {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "s" * 40, "AWS_ENDPOINT_URL": at, "AWS_CONFIG_FILE": "/none"}
    try:
        yield asked, environment
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def told():
    urls = [f"s3://{bucket}/{rest}" for bucket in ANSWERS for rest in ("train/", "a.jsonl")]
    with serving() as (_, environment):
        urls += [f"{environment['AWS_ENDPOINT_URL']}/web/{name}.jsonl?token=0123456789abcdef0123" for name in PAGES]
        yield json.loads(python(ASK, *urls, env=environment).stdout)


@pytest.mark.parametrize("name", [*ANSWERS, *PAGES])
def test_a_refusal_is_told_at_once_with_what_helps(told, name):
    *_, words, others = (ANSWERS | PAGES)[name]
    asked = [text for url, text in told.items() if f"/{name}/" in url or f"/{name}." in url]
    assert len(asked) == (2 if name in ANSWERS else 1)
    for text, seconds in asked:
        assert all(word in text for word in words) and not any(word in text for word in others) and seconds < 5, (text, seconds)


FAR = "<Error><Code>AuthorizationHeaderMalformed</Code><Message>wrong</Message><Region>eu-moon-1</Region></Error>"


@pytest.mark.parametrize(
    "answer, words, sent",
    [((200, '{"ok": true}'), "knows nothing of S3", ""), ((200, ""), "knows nothing of S3", ""), ((400, FAR), "set AWS_REGION", "/eu-moon-1/s3/")],
)
def test_what_is_no_list_is_told_at_once_and_a_region_that_is_named_is_tried(answer, words, sent):
    ANSWERS["listed"] = (answer[0], "application/xml", answer[1], [], [])
    with serving() as (asked, environment):
        [[said, seconds]] = json.loads(python(ASK, "s3://listed/train/", env=environment).stdout).values()
    assert words in said and seconds < 5 and any(sent in one for one in asked)


CASES = {
    "[a]\naws_access_key_id = k\nno sense\n": "config: line 3 is neither",
    "region = x\n": "config: line 1 is neither",
    "[b]\nregion = x\n": 'no profile "a"',
}


@pytest.mark.parametrize("text", CASES)
def test_a_profile_that_cannot_be_read_is_told_with_file_and_line(tmp_path, text):
    (tmp_path / "config").write_text(text)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment = kept | {"AWS_CONFIG_FILE": str(tmp_path / "config"), "AWS_SHARED_CREDENTIALS_FILE": "/none", "AWS_PROFILE": "a"}
    [[said, _]] = json.loads(python(ASK, "s3://b/x", env=environment).stdout).values()
    assert CASES[text] in said


def test_a_password_in_an_endpoint_is_never_shown_and_names_that_rota_cannot_ask_for_are_refused(tmp_path):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    for endpoint in "https//user:pa55@host", "https://user:pa55@host", "user:pa55@host:9000":
        [[said, _]] = json.loads(python(ASK, "s3://b/x", env=kept | {"AWS_ENDPOINT_URL": endpoint}).stdout).values()
        assert "pa55" not in said and "a URL without a password" in said
    keys = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
    for bucket, words in ("arn:aws:s3:us-east-1:1:accesspoint/a", "an access point"), ("fast--use1-az4--x-s3", "S3 Express"):
        [[said, _]] = json.loads(python(ASK, f"s3://{bucket}/x", env=kept | keys).stdout).values()
        assert words in said
