"""A browser for tests: headless Chromium, driven by chromedriver over the WebDriver protocol (W3C).

scripts/setup.sh browser installs both.
"""
import base64
import json
import pathlib
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # W3C WebDriver, section 11
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "Tab": "\ue004", "ArrowLeft": "\ue012", "ArrowUp": "\ue013",
        "ArrowRight": "\ue014", "ArrowDown": "\ue015", "Home": "\ue011", "F2": "\ue032", "Control": "\ue009"}


def is_installed():
    return shutil.which("chromium") is not None and shutil.which("chromedriver") is not None


class Browser:
    """`microphone`: a WAV file that the fake microphone plays again and again."""

    def __init__(self, microphone=None, downloads=None):
        arguments = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--use-fake-device-for-media-stream",
                     "--use-fake-ui-for-media-stream", "--autoplay-policy=no-user-gesture-required",
                     "--window-size=1400,1000"]
        if microphone:
            arguments.append(f"--use-file-for-fake-audio-capture={microphone}")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        # No pipes: the browser inherits them, and may outlive a test that was killed.
        self.driver = subprocess.Popen(["chromedriver", f"--port={port}"], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.url = f"http://127.0.0.1:{port}"
        self.wait_for_driver()
        preferences = {"download.default_directory": str(downloads)} if downloads else {}
        capabilities = {"browserName": "chrome", "goog:loggingPrefs": {"browser": "ALL"},
                        "goog:chromeOptions": {"binary": shutil.which("chromium"), "args": arguments,
                                               "prefs": preferences}}
        answer = self.call("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        self.url += f"/session/{answer['sessionId']}"

    def close(self):
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()

    def wait_for_driver(self):
        for _ in range(300):
            try:
                self.call("GET", "/status")
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError("chromedriver did not start")

    def call(self, method, path, body=None):
        data = None if method == "GET" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.load(error)["value"]["message"]) from None

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def script(self, code, *arguments):
        return self.call("POST", "/execute/sync", {"script": code, "args": list(arguments)})

    def promise(self, code, *arguments):
        """The value of a script that returns a promise."""
        script = f"const done = arguments[arguments.length - 1]; (async () => {{{code}}})().then(done, (e) => done(String(e)));"
        return self.call("POST", "/execute/async", {"script": script, "args": list(arguments)})

    def wait(self, condition, what, limit_s=60):
        """Waits until a JavaScript expression is true, and returns its value."""
        end = time.monotonic() + limit_s
        while True:
            value = self.script(f"return {condition}")
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"{what}: not after {limit_s} s: {condition}")
            time.sleep(0.05)

    def find(self, selector):
        return self.call("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self.call("POST", f"/element/{self.find(selector)}/click")

    def type(self, selector, text):
        self.call("POST", f"/element/{self.find(selector)}/value", {"text": text})

    def press(self, *names):
        """Presses keys one after another on what has the focus."""
        actions = []
        for name in names:
            key = KEYS.get(name, name)
            actions += [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def emulate(self, dark=False, phone=False, reduced_motion=False):
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                    {"name": "prefers-reduced-motion", "value": "reduce" if reduced_motion else "no-preference"}]
        self.devtools("Emulation.setEmulatedMedia", features=features)
        if phone:
            self.devtools("Emulation.setDeviceMetricsOverride", width=360, height=780, deviceScaleFactor=2, mobile=True)
        else:
            self.devtools("Emulation.clearDeviceMetricsOverride")

    def devtools(self, command, **parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def log(self):
        """Messages of the console since the last call, such as violations of the Content-Security-Policy."""
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"})]

    def screenshot(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self.call("GET", "/screenshot")))
