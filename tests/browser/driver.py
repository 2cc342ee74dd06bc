"""A headless Chromium that is driven by Debian's chromedriver."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

from moirae.dashboard.build import WEB

TIMEOUT = 30.0  # seconds for what should take well below one
AXE = WEB / "node_modules" / "axe-core" / "axe.min.js"
_OPTIONS = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu")
_WIDTH = 1280
_HEIGHT = 900
PHONE_WIDTH = 390


class Browser:
    """One window on the pages of a server."""

    def __init__(self, driver: webdriver.Chrome, url: str) -> None:
        self.driver = driver
        self.url = url

    def log_in(self, token: str) -> None:
        """Exchange a token for a session on the login page."""
        self.driver.get(self.url + "/login")
        self.driver.find_element("id", "token").send_keys(token, Keys.ENTER)
        self.wait_for(lambda: "/login" not in self.driver.current_url)

    def open(self, path: str, ready: str = "h1") -> None:
        """Open a page and wait until an element is there and nothing is loading.

        The pointer is over no list: that one would keep its entries.
        """
        self.driver.get(self.url + path)
        self.point_at_nothing()
        self.wait_for(lambda: self.find_all(ready) and not self.find_all("[aria-busy=true]"))

    def find_all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements("css selector", selector)

    def find(self, selector: str) -> WebElement:
        found: WebElement = self.wait_for(lambda: next(iter(self.find_all(selector)), None))
        return found

    def text(self, selector: str = "body") -> str:
        """The text of an element, in one line; empty without the element."""
        text = self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)
        return " ".join(str(text).split())

    def wait_for(self, condition: Callable[[], Any]) -> Any:
        """The result of a condition once it is true."""
        return WebDriverWait(self.driver, TIMEOUT, 0.1).until(lambda _: condition())

    def wait_for_text(self, text: str, selector: str = "body") -> None:
        def has_text() -> bool:
            return text in self.text(selector)

        self.wait_for(has_text)

    def press(self, *keys: str) -> None:
        """Press keys one after the other."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def point_at(self, selector: str) -> None:
        """Move the pointer over an element."""
        ActionChains(self.driver, duration=0).move_to_element(self.find(selector)).perform()

    def point_at_nothing(self) -> None:
        """Move the pointer to the corner of the page."""
        actions = ActionBuilder(self.driver, duration=0)
        actions.pointer_action.move_to_location(0, 0)  # type: ignore[no-untyped-call]
        actions.perform()

    def drag(self, selector: str, start: float, end: float) -> None:
        """Drag over an element, in its middle, from one share of its width to another."""
        element = self.find(selector)
        width = element.size["width"]
        chain = ActionChains(self.driver, duration=50)
        chain.move_to_element_with_offset(element, int((start - 0.5) * width), 0)
        chain.click_and_hold().move_to_element_with_offset(element, int((end - 0.5) * width), 0)
        chain.release().perform()

    def press_button(self, name: str, inside: str = "body") -> None:
        """Click the button with a name."""
        buttons = self.find_all(f"{inside} button")
        next(button for button in buttons if button.text.strip() == name).click()

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def resize(self, width: int) -> None:
        metrics = {"width": width, "height": _HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def set_offline(self, offline: bool) -> None:
        """Whether requests of the page fail."""
        self.driver.execute_cdp_cmd("Network.enable", {})
        rates = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        self.driver.execute_cdp_cmd(
            "Network.emulateNetworkConditions", {"offline": offline, **rates}
        )

    def problems(self) -> list[str]:
        """Errors of the console since the last call, such as violations of the policy."""
        entries = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def serious_findings(self) -> list[str]:
        """What axe finds on the page that is serious or critical."""
        if not AXE.is_file():
            pytest.skip("axe-core is not installed: npm ci in moirae/dashboard/web")
        self.driver.execute_script(AXE.read_text())
        result = self.driver.execute_async_script(
            "axe.run(document, {resultTypes: ['violations']}).then(arguments[0])"
        )
        return [
            f"{violation['id']}: {node['html'][:200]}"
            for violation in result["violations"]
            if violation["impact"] in ("serious", "critical")
            for node in violation["nodes"]
        ]

    def save_picture(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(file))


@contextmanager
def open_browser(url: str) -> Iterator[Browser]:
    """A browser window; it has ended afterwards."""
    options = Options()
    for option in _OPTIONS:
        options.add_argument(option)
    options.binary_location = shutil.which("chromium") or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        driver.set_script_timeout(TIMEOUT)
        browser = Browser(driver, url)
        browser.resize(_WIDTH)
        yield browser
    finally:
        driver.quit()
