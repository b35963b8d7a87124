"""An S3 server on loopback that fails as it is told to: s3_server.py DIRECTORY [option ...]

Serves DIRECTORY/BUCKET/KEY by path. Prints its port, and ends when its standard input does. A line there is other
options from now on, a list in JSON; it answers by a line. Signatures (AWS Signature Version 4) are verified.
Each request is a line of DIRECTORY/requests: kind, path, range, status, how many of its kind were under way when it came.
"""

import argparse
import bisect
import collections
import hashlib
import hmac
import json
import os
import socket
import struct
import sys
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.etree import ElementTree
from xml.sax.saxutils import escape

parser = argparse.ArgumentParser()
parser.add_argument("directory")
parser.add_argument("--port", type=int, default=0, help="any, if 0")
parser.add_argument("--page", type=int, default=1000, help="keys of a page")
parser.add_argument("--fault", default="", help="what each request of --kind suffers the first --times times")
parser.add_argument("--kind", default="", help="list, head, range, put, begin, part, complete or abort; all, if empty")
parser.add_argument("--times", type=int, default=1)
parser.add_argument("--name", default="", help="bucket/key of the only object that suffers")
parser.add_argument("--delay", type=float, default=0, help="seconds before the first byte")
parser.add_argument("--region", default="us-east-1")
parser.add_argument("--redirect", action="store_true", help="whoever names another region is told another server")
parser.add_argument("--key", default="AKIDEXAMPLE")
parser.add_argument("--secret", default="test-secret")
parser.add_argument("--expired", default="", help="a session token that is over")
parser.add_argument("--rotate", type=float, default=0, help="seconds after which GET /keys tells other keys; the last two are valid")
parser.add_argument("--no-etags", action="store_true")
parser.add_argument("--open", action="store_true", help="requests need no signature")
parser.add_argument("--requester-pays", action="store_true", help="requests must say so")
parser.add_argument("--no-ranges", action="store_true")
parser.add_argument("--many", type=int, default=0, help='objects "many/FOLDER/INDEX" of a byte each, in 100 folders')
parser.add_argument("--certificate", default="", help="TLS by this file of certificate and key")
options = parser.parse_args()

counts = {}
under_way = collections.Counter()
contents = {}  # by path: when it was written, bytes, ETag
uploads = {}  # by ID: names, and the parts by number
lock = threading.Lock()
log = open(os.path.join(options.directory, "requests"), "a", buffering=1)


def encoded(text, safe=""):
    return urllib.parse.quote(text, safe=safe + "-_.~")


def sign(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class Many:
    """The keys of bucket "many", in order."""

    def __len__(self):
        return options.many

    def __getitem__(self, i):
        return f"{i * 100 // options.many:03}/{i:08}"


def generation():
    return int(time.time() / options.rotate)


def keys_of(bucket, prefix):
    if bucket == "many":
        return Many()
    bucket = os.path.join(options.directory, bucket)
    keys = []
    for parent, _, files in os.walk(os.path.join(bucket, prefix.rpartition("/")[0])):
        keys += [os.path.relpath(os.path.join(parent, file), bucket) for file in files]
    return sorted(keys)


def content(path):
    if path.startswith(os.path.join(options.directory, "many/")):
        i = int(path[-8:])
        if i >= options.many or not path.endswith("/" + Many()[i]):
            raise FileNotFoundError(path)
        return b"x", "e"
    written = os.stat(path).st_mtime_ns
    if contents.get(path, (None,))[0] != written:
        data = open(path, "rb").read()
        contents[path] = (written, data, hashlib.md5(data).hexdigest())
    return contents[path][1:]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each body waits for what acknowledges its head
    server_version = "test"

    def log_message(self, *arguments):
        pass

    def do_HEAD(self):
        self.fault, self.at_once = "", 0
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = urllib.parse.urlsplit(self.path)
        self.names = urllib.parse.unquote(parts.path).lstrip("/").split("/", 1)
        self.query = urllib.parse.parse_qs(parts.query, keep_blank_values=True)
        if self.names[0] == "keys":
            self.kind = "keys"
            return self.fail() or self.tell_keys()
        is_list = len(self.names) == 1 or not self.names[1]
        self.kind = "list" if is_list else self.kind_of_object()
        with lock:
            under_way[self.kind] += 1
            self.at_once = under_way[self.kind]
        try:
            self.serve_bucket(parts)
        finally:
            with lock:
                under_way[self.kind] -= 1

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD

    def serve_bucket(self, parts):
        if options.delay and options.kind in ("", self.kind):
            time.sleep(options.delay)
        refusal = self.refusal(parts)
        if refusal:
            return self.answer(*refusal)
        if self.fail():
            return
        getattr(self, {"head": "send_object", "range": "send_object"}.get(self.kind, self.kind))()

    def tell_keys(self):
        """As a container's server does."""
        end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + options.rotate))
        keys = {"AccessKeyId": options.key, "SecretAccessKey": options.secret, "Token": f"token-{generation()}"}
        self.send(200, {"Content-Type": "application/json"}, json.dumps(keys | {"Expiration": end}).encode())

    def kind_of_object(self):
        if self.command == "PUT":
            return "part" if "uploadId" in self.query else "put"
        if self.command == "POST":
            return "begin" if "uploads" in self.query else "complete"
        return {"HEAD": "head", "GET": "range", "DELETE": "abort"}[self.command]

    def refusal(self, parts):
        """What is wrong with who asks: status, code."""
        given = self.headers.get("Authorization", "")
        if options.open and not given:
            return None
        if not given.startswith("AWS4-HMAC-SHA256 "):
            return 403, "AccessDenied"
        fields = dict(part.strip().split("=", 1) for part in given[17:].split(","))
        key, day, region, service, _ = fields["Credential"].split("/")
        if region != options.region:
            return (307, "TemporaryRedirect") if options.redirect else (400, "AuthorizationHeaderMalformed")
        names = fields["SignedHeaders"].split(";")
        if options.requester_pays and "x-amz-request-payer" not in names:
            return 403, "AccessDenied"
        if not {"host", "x-amz-date", "x-amz-content-sha256"} <= set(names):
            return 403, "AccessDenied"
        if self.headers["x-amz-content-sha256"] != hashlib.sha256(self.body).hexdigest():
            return 400, "XAmzContentSHA256Mismatch"
        if self.headers.get("Range") and "range" not in names:
            return 403, "AccessDenied"
        query = sorted(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
        path = encoded(urllib.parse.unquote(parts.path), "/")
        asked = "&".join(f"{encoded(name)}={encoded(value)}" for name, value in query)
        headers = "".join(f"{name}:{self.headers.get(name, '').strip()}\n" for name in names)
        request = [self.command, path, asked, headers, ";".join(names), self.headers["x-amz-content-sha256"]]
        digest = hashlib.sha256("\n".join(request).encode()).hexdigest()
        scope = f"{day}/{region}/{service}/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", self.headers["x-amz-date"], scope, digest])
        secret = ("AWS4" + options.secret).encode()
        for part in (day, region, service, "aws4_request"):
            secret = sign(secret, part)
        if key != options.key or fields["Signature"] != sign(secret, text).hex():
            return 403, "SignatureDoesNotMatch"
        if options.expired and self.headers.get("x-amz-security-token") == options.expired:
            return 400, "ExpiredToken"
        if options.rotate:
            valid = [f"token-{generation()}", f"token-{generation() - 1}"]
            return None if self.headers.get("x-amz-security-token") in valid else (400, "ExpiredToken")
        return None

    def fail(self):
        """Whether the request has failed as it is to."""
        if not options.fault or options.kind not in ("", self.kind):
            return False
        if options.name not in ("", "/".join(self.names)):
            return False
        which = (self.kind, self.path)
        with lock:
            counts[which] = counts.get(which, 0) + 1
            if counts[which] > options.times:
                return False
        name = options.fault
        if name.isdigit():
            self.answer(int(name), "SlowDown")
        elif name == "error200":
            self.answer(200, "InternalError")
        elif name == "echo":  # an error that repeats what was asked, as proxies send
            echo = escape("".join(f"{name}: {value};" for name, value in self.headers.items()))
            self.send_xml(f"<Error><Code>{echo}</Code><Message>{echo}</Message></Error>", 403)
        elif name == "reset":
            self.reset()
        elif name == "hang":
            self.note(0)
            time.sleep(30)
            self.close_connection = True
        else:
            self.fault = name
            return False
        return True

    def reset(self):
        self.note(0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def note(self, status):
        log.write(f"{self.kind} {'/'.join(self.names)} {self.headers.get('Range', '-')} {status} {self.at_once}\n")

    def answer(self, status, code):
        headers = {}
        if code == "AuthorizationHeaderMalformed":
            headers["x-amz-bucket-region"] = options.region
        if code == "TemporaryRedirect":
            headers["Location"] = f"https://{self.names[0]}.s3.{options.region}.amazonaws.com/"
        self.send_xml(f"<Error><Code>{code}</Code><Message>as it was told to</Message></Error>", status, headers)

    def list(self):
        bucket = os.path.join(options.directory, self.names[0])
        if not os.path.isdir(bucket) and self.names[0] != "many":
            return self.answer(404, "NoSuchBucket")
        prefix = self.query.get("prefix", [""])[0]
        page, more = self.page(keys_of(self.names[0], prefix), prefix, self.query.get("continuation-token", [""])[0])
        fault = self.fault
        items = ""
        for key in page[::-1] if fault == "disorder" else page:
            if key.endswith("/"):
                items += f"<CommonPrefixes><Prefix>{encoded(key, '/')}</Prefix></CommonPrefixes>"
                continue
            data, etag = content(os.path.join(bucket, key))
            size = "" if fault == "no_size" else f"<Size>{len(data)}</Size>"
            etag = "" if options.no_etags else f"<ETag>&quot;{etag}&quot;</ETag>"
            items += f"<Contents><Key>{encoded(key, '/')}</Key>{size}{etag}</Contents>"
        if fault == "stray":
            items += "<CommonPrefixes><Prefix>another/</Prefix></CommonPrefixes>"
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        if fault == "no_token":
            token, more = "", True
        if fault in ("round", "nothing"):  # a list without end: tokens that go round, or pages without names
            before = self.query.get("continuation-token", [""])[0]
            token = {"": "a", "a": "b", "b": "a"}.get(before, "a") if fault == "round" else before + "x"
            items, token, more = "", f"<NextContinuationToken>{token}</NextContinuationToken>", True
        goes_on = "" if fault == "no_truncated" else f"<IsTruncated>{str(more).lower()}</IsTruncated>"
        text = f"<ListBucketResult><EncodingType>url</EncodingType>{goes_on}{token}{items}</ListBucketResult>"
        self.send_xml(text[: len(text) // 2] if fault == "torn" else text)

    def page(self, keys, prefix, after):
        """The next names that begin with `prefix`, directories in place of what is in them, and whether more follow."""
        last = chr(0x10FFFF)  # no name has it
        by_directory = "delimiter" in self.query
        i = bisect.bisect_left(keys, prefix)
        if after:
            i = bisect.bisect_right(keys, after + (last if by_directory and after.endswith("/") else ""))
        page = []
        while i < len(keys) and keys[i].startswith(prefix) and len(page) < options.page:
            entry = prefix + "".join(keys[i][len(prefix) :].partition("/")[:2]) if by_directory else keys[i]
            page.append(entry)
            i = bisect.bisect_right(keys, entry + last) if entry.endswith("/") else i + 1
        return page, i < len(keys) and keys[i].startswith(prefix)

    def send_object(self):
        try:
            data, etag = content(os.path.join(options.directory, *self.names))
        except OSError:
            return self.answer(404, "NoSuchKey")
        fault = self.fault
        if fault == "no_length":
            return self.send(204, {}, b"")
        etag = "\x1b[31m" + 300 * "e" if fault == "odd_etag" else etag
        headers = {} if options.no_etags or fault == "no_etag" else {"ETag": f'"{etag}"'}
        wanted = None if options.no_ranges else self.headers.get("Range")
        if wanted is None:
            return self.send(200, headers, data)
        first, last = (int(number) for number in wanted[6:].split("-"))
        if first >= len(data):
            return self.answer(416, "InvalidRange")
        last = min(last, len(data) - 1)
        shift = 1 if fault == "wrong_range" else 0
        headers["Content-Range"] = f"bytes {first + shift}-{last + shift}/{len(data)}"
        self.send(206, headers, data[first : last + 1])

    def put(self):
        self.keep(self.body)
        self.send(200, {"ETag": f'"{hashlib.md5(self.body).hexdigest()}"'}, b"")

    def keep(self, body):
        path = os.path.join(options.directory, *self.names)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        written = os.path.join(options.directory, f"new-{threading.get_ident()}")
        with open(written, "wb") as file:
            file.write(body)
        os.rename(written, path)

    def begin(self):
        with lock:
            upload = f"upload-{len(uploads)} +&"
            uploads[upload] = (self.names, {})
        self.send_xml(f"<InitiateMultipartUploadResult><UploadId>{escape(upload)}</UploadId></InitiateMultipartUploadResult>")

    def upload(self):
        """The ID and the parts of the upload that is named; None after an answer that there is none."""
        upload = self.query["uploadId"][0]
        names, parts = uploads.get(upload, (None, None))
        if names == self.names:
            return upload, parts
        self.answer(404, "NoSuchUpload")
        return None

    def part(self):
        if found := self.upload():
            found[1][int(self.query["partNumber"][0])] = self.body
            self.send(200, {"ETag": f'"{hashlib.md5(self.body).hexdigest()}"'}, b"")

    def complete(self):
        found = self.upload()
        if not found:
            return
        upload, parts = found
        named = [
            (int(part.findtext("{*}PartNumber")), part.findtext("{*}ETag").strip('"'))
            for part in ElementTree.fromstring(self.body)
        ]
        if named != [(number, hashlib.md5(parts[number]).hexdigest()) for number in sorted(parts)]:
            return self.answer(400, "InvalidPart")
        if any(len(parts[number]) < 5 << 20 for number, _ in named[:-1]):
            return self.answer(400, "EntityTooSmall")
        self.keep(b"".join(parts[number] for number, _ in named))
        del uploads[upload]
        self.send_xml("<CompleteMultipartUploadResult/>")

    def abort(self):
        if "uploadId" not in self.query:
            path = os.path.join(options.directory, *self.names)
            if os.path.exists(path):
                os.remove(path)
            return self.send(204, {}, b"")
        if found := self.upload():
            del uploads[found[0]]
            self.send(204, {}, b"")

    def send_xml(self, text, status=200, headers=None):
        self.send(status, {"Content-Type": "application/xml", **(headers or {})}, f"<?xml version='1.0'?>{text}".encode())

    def send(self, status, headers, body):
        fault = self.fault
        if fault == "lost":  # what was asked for is done, and nobody hears of it
            return self.reset()
        self.note(status)
        if fault in ("torn_head", "garbage"):
            head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n" % len(body)
            return self.end_with(head if fault == "torn_head" else b"no HTTP at all\r\n")
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if fault in ("unended", "trailer"):  # all but the end of the answer comes; headers behind it
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault == "trailer":
            self.wfile.write(b'%x\r\n%s\r\n0\r\nETag: "later"\r\n\r\n' % (len(body), body))
        elif fault == "unended":
            self.end_with(b"%x\r\n%s\r\n" % (len(body), body))
        elif fault == "cut":
            self.end_with(body[: len(body) // 2])
        elif fault == "torn_reset":
            self.wfile.write(body[: len(body) // 2])
            self.reset()
        elif fault == "trickle":
            for i in range(min(len(body), 100)):
                self.wfile.write(body[i : i + 1])
                time.sleep(0.1)
            self.close_connection = True
        else:
            self.wfile.write(body)

    def end_with(self, last):
        self.wfile.write(last)
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, client_address):
        pass


def main():
    global options
    server = Server(("127.0.0.1", options.port), Handler)
    if options.certificate:
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(options.certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    for line in sys.stdin:
        options = parser.parse_args([options.directory, *json.loads(line)])
        counts.clear()
        print(flush=True)
    os._exit(0)


main()
