"""The page of `rota report` in a browser: wide, narrow and dark. The pictures are left in $ROTA_PICTURES, to be looked at."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from test_report import phase_of, report

chromium = shutil.which("chromium")
pytestmark = pytest.mark.skipif(chromium is None, reason="there is no chromium")


def browse(*arguments):
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--allow-file-access-from-files"]
    done = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    long = dict(slowest="s3://a-bucket/a-rather-long-prefix/of-a-dataset/with-names/that-never-end/data-0412.h5", slowest_seconds=0.04)
    phase_of(folder / "trace", 0, 3, 0, 4, (0.003, 0.04, 0.003), **long)
    phase_of(folder / "trace", 1, 12, 60, 4)
    phase_of(folder / "trace", 2, 2, 140, 3)
    page = folder / "report.html"
    assert report(folder / "trace", "-o", page).returncode == 0
    return page


def seen(page, width, *options):
    """Its width and the colours of its ground and its text, as the browser has them."""
    frame = page.with_name("frame.html")
    frame.write_text(
        f'<iframe src="{page.name}" width="{width}" height="900" style="border:0" onload="'
        "const d = this.contentDocument, c = getComputedStyle(d.body);"
        "document.title = [d.scrollingElement.scrollWidth, c.backgroundColor, c.color].join('|')\"></iframe>"
    )
    title = re.search(r"<title>(\d+)\|rgb\((.*?)\)\|rgb\((.*?)\)</title>", browse("--dump-dom", "--virtual-time-budget=3000", *options, frame))
    brightness = [sum(map(int, colour.split(","))) for colour in title.groups()[1:]]
    return int(title[1]), *brightness


@pytest.mark.parametrize("width", [360, 800, 1400])
def test_it_is_as_wide_as_the_window(page, width):
    assert seen(page, width)[0] == width


def test_it_is_dark_where_that_is_wanted(page):
    _, ground, ink = seen(page, 800)
    assert ground > 700 and ink < 200
    _, ground, ink = seen(page, 800, "--blink-settings=preferredColorScheme=0")
    assert ground < 100 and ink > 600


@pytest.mark.parametrize("name, size, options", [
    ("wide", "1200,1500", []), ("narrow", "420,2200", []), ("dark", "1200,1500", ["--blink-settings=preferredColorScheme=0"]),
])  # fmt: skip
def test_pictures_are_taken(page, name, size, options):
    folder = Path(os.environ.get("ROTA_PICTURES", page.parent))
    picture = folder / f"report-{name}.png"
    browse(f"--window-size={size}", f"--screenshot={picture}", *options, page)
    assert picture.stat().st_size > 20_000
