"""Pictures of the dashboard: `python -m tests.browser.pictures LOGIN_URL FOLDER [--all]`.

`LOGIN_URL`: as `make demo` prints it. Each page is taken at the width of a desktop in the light
theme; with `--all` also at that of a phone, and in the dark theme.
"""

import argparse
from pathlib import Path
from urllib.parse import urlsplit

from tests.browser.driver import PHONE_WIDTH, Browser, open_browser

_DESKTOP_WIDTH = 1280
_COLORS = 128  # of a picture, which keeps files small


def main() -> None:
    parser = argparse.ArgumentParser(prog="pictures")
    parser.add_argument("login_url")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    parts = urlsplit(options.login_url)
    with open_browser(f"{parts.scheme}://{parts.netloc}") as browser:
        browser.driver.get(options.login_url)
        browser.wait_for(lambda: "/login" not in browser.driver.current_url)
        variants = [("light", _DESKTOP_WIDTH)]
        if options.all:
            variants += [("dark", _DESKTOP_WIDTH), ("light", PHONE_WIDTH), ("dark", PHONE_WIDTH)]
        for theme, width in variants:
            suffix = f"-{theme}-{width}" if options.all else ""
            _take_pages(browser, options.folder, suffix, theme, width)


def _take_pages(browser: Browser, folder: Path, suffix: str, theme: str, width: int) -> None:
    browser.resize(width)
    browser.run("localStorage.setItem('moirae.theme', arguments[0])", theme)
    for name, path in _find_pages(browser).items():
        browser.open(path)
        # Answers of the page Now and charts come after the page itself.
        browser.run("return new Promise(resolve => setTimeout(resolve, 1500))")
        file = folder / f"{name}{suffix}.png"
        browser.save_picture(file)
        _shrink(file)
        print(file)


def _find_pages(browser: Browser) -> dict[str, str]:
    """The address of each page; the alert is the newest one with a similar past alert."""
    browser.open("/", ".alert-list .entry")
    pages = {"now": "/", "history": "/history", "rules": "/rules", "system": "/system"}
    links = browser.find_all(".alert-list .entry")
    addresses = [urlsplit(str(link.get_attribute("href"))).path for link in links]  # type: ignore[no-untyped-call]
    for address in addresses:
        browser.open(address)
        compare = browser.find_all(".compare-link")
        if compare:
            pages["alert"] = address
            pages["compare"] = urlsplit(str(compare[0].get_attribute("href"))).path  # type: ignore[no-untyped-call]
            break
    return pages


def _shrink(file: Path) -> None:
    from PIL import Image  # of matplotlib

    with Image.open(file) as picture:
        # By coverage: the color of a few pixels, such as a mark in a chart, is kept.
        small = picture.convert("RGB").quantize(_COLORS, method=Image.Quantize.MAXCOVERAGE)
    small.save(file, optimize=True)


if __name__ == "__main__":
    main()
