"""Pictures and the documentation in a real browser: pointer, keyboard and typed text, without network or errors."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import stridedgpu as sg
from stridedgpu import picture
from stridedgpu.values.layout import Layout

pytestmark = [pytest.mark.slow, pytest.mark.browser]

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


class Browser:
    """A page in headless Chromium."""

    def __init__(self, driver, folder):
        self.driver = driver
        self.folder = folder

    def open(self, html: str) -> None:
        path = self.folder / "picture.html"
        path.write_text(html, encoding="utf-8")
        self.visit(path)

    def visit(self, path: Path) -> None:
        self.driver.get_log("performance")
        self.driver.get(path.as_uri())
        self.address = path.as_uri()

    def find(self, selector: str):
        return self.driver.find_element("css selector", selector)

    def wait_for(self, selector: str, typed: str = "") -> None:
        """Wait until an element is there; what is typed meanwhile is typed again, until the page listens."""
        from selenium.webdriver import ActionChains
        from selenium.webdriver.support.ui import WebDriverWait

        def there(driver):
            ActionChains(driver).send_keys(typed).perform()
            return driver.find_elements("css selector", selector)

        WebDriverWait(self.driver, 120).until(there)

    def hover(self, selector: str) -> None:
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).move_to_element(self.find(selector)).perform()

    def press(self, *keys: str) -> None:
        from selenium.webdriver import ActionChains, Keys

        for key in keys:
            ActionChains(self.driver).send_keys(getattr(Keys, key)).perform()

    def lit(self) -> list[str]:
        """The coordinates of the lit elements and the offsets of the lit places, side by side."""
        code = (
            "return [...document.querySelectorAll('.sg-lit')].map(cell => "
            "(cell.matches('.sg-cell') ? cell.dataset.at : '@' + cell.dataset.offset));"
        )
        return self.driver.execute_script(code)

    def focused(self) -> str:
        code = "const c = document.activeElement; return c.matches('.sg-cell') ? c.dataset.at : '@' + c.dataset.offset;"
        return self.driver.execute_script(code)

    def status(self) -> str:
        return self.find(".sg-status").text

    def ask(self, coordinates: str) -> str:
        field = self.find("form input")
        field.clear()
        field.send_keys(coordinates)
        return self.find("form output").text

    def media(self, scheme: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def resize(self, width: int) -> None:
        # Not the window: Chromium makes none narrower than 500 pixels.
        metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def requests(self) -> set[str]:
        entries = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        sent = {e["params"]["request"]["url"] for e in entries if e["method"] == "Network.requestWillBeSent"}
        return {url for url in sent if not url.startswith("data:")}


@pytest.fixture(scope="module")
def driver() -> Iterator[object]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium drives the browser: pip install selenium")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    chromedriver = shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        pytest.skip("there is no browser: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options, webdriver.ChromeService(chromedriver))
    yield started
    started.quit()


@pytest.fixture
def browser(driver, tmp_path) -> Iterator[Browser]:
    page = Browser(driver, tmp_path)
    page.resize(1100)
    yield page
    page.media("")
    # What the search of the page before had still to say comes late; pictures have no workers.
    assert [entry for entry in driver.get_log("browser") if entry["source"] != "worker"] == []
    assert page.requests() == {page.address}


def pitched() -> sg.StridedTensor:
    return sg.empty((1, 3, 4, 5), "uint8", layout="NHWC", row_pitch_bytes=16, device="cpu")


def small_plan() -> object:
    source = sg.empty((1, 3, 2, 4), "uint8", layout="NHWC", device="cpu")
    target = sg.empty((1, 3, 2, 4), "float16", device="cpu")
    return sg.plan_relayout(source, target, scale=0.5, channels=(2, 1, 0))


def test_hovering_lights_the_element_and_its_address(browser):
    browser.open(picture.html(pitched()))
    browser.hover('.sg-cell[data-at="0,1,2,3"]')
    assert browser.lit() == ["0,1,2,3", "@42"]
    assert browser.status() == "(0,1,2,3) lies at 0·64 + 1·1 + 2·16 + 3·3 = 42"
    browser.hover('.sg-padding[data-offset="31"]')
    assert browser.lit() == ["@31"]
    assert browser.status() == "offset 31: padding"


def test_hovering_lights_everything_that_shares_the_place(browser):
    browser.open(picture.html(Layout((3, 4), (0, 1)), dims="HW"))
    browser.hover('.sg-cell[data-at="1,2"]')
    assert browser.lit() == ["0,2", "1,2", "2,2", "@2"]
    browser.hover('.sg-place[data-offset="3"]')
    assert browser.lit() == ["0,3", "1,3", "2,3", "@3"]
    assert browser.status() == "(0,3) lies at 0·0 + 3·1 = 3, shared by 3 elements"


def test_the_keyboard_reaches_everything(browser):
    browser.open(picture.html(pitched()))
    browser.press("TAB")
    assert browser.focused() == "0,0,0,0"
    assert browser.lit() == ["0,0,0,0", "@0"]
    browser.press("ARROW_RIGHT", "ARROW_DOWN")
    assert browser.focused() == "0,0,1,1"
    assert browser.status().endswith("= 19")
    browser.press("END")
    assert browser.focused() == "0,0,3,4"
    browser.press("ARROW_DOWN")
    assert browser.focused() == "0,0,3,4"
    browser.press("TAB", "TAB", "TAB")
    assert browser.focused() == "@0"
    browser.press("ARROW_RIGHT")
    assert browser.focused() == "@1"
    browser.press("ARROW_DOWN")
    assert int(browser.focused()[1:]) > 5
    browser.press("HOME", "ESCAPE")
    assert browser.lit() == []
    browser.press("TAB")
    assert browser.driver.execute_script("return document.activeElement.tagName") == "INPUT"
    stops = (
        "return [...document.querySelectorAll('[role=grid]')].map(g => g.querySelectorAll('[tabindex=\"0\"]').length)"
    )
    assert browser.driver.execute_script(stops) == [1, 1, 1, 1]


def test_typed_coordinates_are_worked_out(browser):
    browser.open(picture.html(pitched()))
    assert browser.ask("0, 2, 3, 4") == "0·64 + 2·1 + 3·16 + 4·3 = 62"
    assert browser.lit() == ["0,2,3,4", "@62"]
    assert browser.ask("0 2 4 4") == "H = 4 is outside 0 to 3"
    assert browser.lit() == []
    assert browser.ask("0,1") == "give 4 whole numbers: N, C, H, W"
    assert browser.ask("<b>,1,2,3") == "give 4 whole numbers: N, C, H, W"
    assert browser.find("form input").get_attribute("aria-invalid") == "true"


def test_coordinates_are_exact_in_a_huge_tensor(browser):
    layout = Layout((2**40, 3, 2**20), (2**24, 2**21, 2), offset=1)
    browser.open(picture.html(layout, dtype="float32"))
    at = (2**40 - 2, 1, 2**20 - 9)
    offset = layout.offset_of(at)
    answer = browser.ask(",".join(map(str, at)))
    assert answer.endswith(f"= {offset}, byte {4 * offset} (left out of the picture)")


def test_a_plan_links_source_and_target(browser):
    browser.open(picture.html(small_plan()))
    browser.hover('section[aria-label="target"] .sg-cell[data-at="0,0,1,2"]')
    assert browser.lit() == ["0,2,1,2", "@20", "0,0,1,2", "@6"]
    assert browser.status().endswith("= 6, from offset 20 of the source")
    browser.hover('section[aria-label="source"] .sg-place[data-offset="20"]')
    assert browser.lit() == ["0,2,1,2", "@20", "0,0,1,2", "@6"]


def test_a_title_is_text_and_never_markup(browser):
    browser.open(picture.html(Layout((2,)), title="<img src=x onerror=alert(1)>"))
    assert browser.driver.title == "<img src=x onerror=alert(1)>"
    assert browser.driver.find_elements("css selector", "img") == []


@pytest.mark.parametrize("scheme, dark", [("light", False), ("dark", True)], ids=["light", "dark"])
@pytest.mark.parametrize("width", [320, 1100])
def test_it_is_readable_in_light_and_dark_at_any_width(browser, tmp_path, scheme, dark, width):
    browser.media(scheme)
    browser.resize(width)
    browser.open(picture.html(small_plan(), title="RGB pixels to BGR planes"))
    browser.hover('section[aria-label="source"] .sg-cell[data-at="0,0,0,1"]')
    brightness = "return getComputedStyle(document.body).{}.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)"
    paper = browser.driver.execute_script(brightness.format("backgroundColor"))
    ink = browser.driver.execute_script(brightness.format("color"))
    assert (paper < ink) == dark
    assert abs(paper - ink) > 400
    inner, outer = browser.driver.execute_script(
        "const d = document.documentElement; return [d.scrollWidth, d.clientWidth]"
    )
    assert inner <= outer
    assert len(browser.driver.get_screenshot_as_png()) > 5000


def test_two_pictures_in_one_page_do_not_meet(browser):
    from stridedgpu.drawing.page import fragment

    first, second = (fragment(Layout((2, 2))) for _ in range(2))
    browser.open(f"<!doctype html><link rel=icon href=data:,><body>{first}<hr>{second}")
    browser.hover('.sg-picture:last-of-type .sg-cell[data-at="1,1"]')
    assert browser.lit() == ["1,1", "@3"]


def test_an_svg_stands_alone(browser):
    page = f"<!doctype html><link rel=icon href=data:,><body>{picture.svg(small_plan())}"
    browser.open(page)
    box = browser.driver.execute_script(
        "const s = document.querySelector('svg'), b = s.getBBox(), v = s.viewBox.baseVal;"
        "return [b.x >= 0, b.y >= 0, b.x + b.width <= v.width, b.y + b.height <= v.height]"
    )
    assert box == [True] * 4


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[str]:
    """The address of the documentation, built and served here."""
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("mkdocstrings") is None:
        pytest.skip("mkdocs and mkdocstrings build the site: pip install stridedgpu[docs]")
    root = Path(__file__).resolve().parents[2]
    if not (root / "mkdocs.yml").is_file():
        pytest.skip("the documentation is not here: the tests lie outside a checkout")
    folder = tmp_path_factory.mktemp("site")
    environment = os.environ | {"PYTHONPATH": str(root)}
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", folder]
    subprocess.run(command, cwd=root, env=environment, check=True, timeout=600)
    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """A file server that writes no log."""

    def log_message(self, format, *args):  # noqa: A002 - the base class's name
        pass


PAGES = sorted(path.stem for path in (Path(__file__).resolve().parents[2] / "docs").glob("*.md"))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_the_site_fits_desk_and_phone_in_light_and_dark(browser, site, page):
    """No page is cut at the right, logs a problem or fetches anything from elsewhere."""
    measured = "const d = document.documentElement; return [d.scrollWidth, d.clientWidth, d.dataset.bsTheme]"
    brightness = "return getComputedStyle(document.body).{}.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)"
    for scheme in ("light", "dark"):
        browser.media(scheme)
        browser.driver.get(site if page == "index" else f"{site}{page}/")
        paper, ink = (browser.driver.execute_script(brightness.format(name)) for name in ("backgroundColor", "color"))
        assert abs(paper - ink) > 400, scheme
        assert (paper < ink) == (scheme == "dark")
        for width in (390, 1280):
            browser.resize(width)
            inner, outer, theme = browser.driver.execute_script(measured)
            assert inner <= outer <= width, (scheme, width)
            assert theme == scheme
    logged = [entry for entry in browser.driver.get_log("browser") if entry["level"] in ("WARNING", "SEVERE")]
    assert logged == []
    assert {url for url in browser.requests() if not url.startswith(site)} == set()
    browser.open(picture.html(Layout((2,))))


def test_the_site_finds_directmls_names_and_answers_the_pointer(browser, site):
    browser.media("dark")
    browser.driver.get(f"{site}strides/")
    browser.hover('.sg-side .sg-cell[data-at="1,0,1"]')
    assert browser.lit() == ["1,0,1", "@7"]
    assert browser.status() == "(1,0,1) lies at 1·6 + 0·3 + 1·1 = 7"
    browser.find("[data-bs-target='#mkdocs_search_modal']").click()
    browser.wait_for("#mkdocs-search-query:focus")
    link = "#mkdocs-search-results a[href*='reference/#stridedgpu.calc_buffer_tensor_size']"
    browser.wait_for(link, typed="DMLCalcBufferTensorSize ")
    browser.driver.get_log("browser")
    browser.open(picture.html(Layout((2,))))
