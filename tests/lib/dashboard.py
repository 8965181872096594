#!/usr/bin/env python3
# SPDX-License-Identifier: ISC
"""A browser, driven by chromedriver's WebDriver protocol: a line on stdin is a command, its
answer a line on stdout.

  open URL              size WIDTH HEIGHT        light | dark
  js EXPRESSION         its value as JSON; a promise is waited for
  until EXPRESSION      as js, repeated until it is true (30 s)
  keys KEY ...          Tab, Enter, Space, Escape, or letters
  shot FILE             the whole page as PNG
  errors                the errors on the console since the last time, a JSON list
"""
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

KEYS = {"Tab": "\ue004", "ShiftTab": "\ue008\ue004\ue000", "Enter": "\ue007", "Space": " ", "Escape": "\ue00c",
        "Down": "\ue015", "Back": "\ue003"}


class Browser:
    def __init__(self):
        self.home = tempfile.mkdtemp(prefix="browser.", dir=os.environ.get("T"))
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                       text=True, env={**os.environ, "HOME": self.home, "TMPDIR": self.home})
        for line in self.driver.stdout:
            if "successfully on port" in line:
                self.url = "http://127.0.0.1:" + line.rsplit("port ", 1)[1].strip(". \n")
                break
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                            "--hide-scrollbars", "--no-proxy-server", "--disable-background-networking",
                            "--user-data-dir=" + self.home + "/profile"]}
        answer = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.session = "/session/" + answer["sessionId"]
        self.ask("POST", self.session + "/timeouts", {"script": 40000})

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as e:
            raise RuntimeError(json.load(e)["value"]["message"]) from e

    def devtools(self, cmd, **params):
        return self.ask("POST", self.session + "/goog/cdp/execute", {"cmd": cmd, "params": params})

    def js(self, text):
        return self.ask("POST", self.session + "/execute/async", {
            "script": "const done = arguments[arguments.length - 1]; "
                      "Promise.resolve((async () => (" + text + "))()).then(done, (e) => done('error: ' + e));",
            "args": []})

    def until(self, text):
        end = time.monotonic() + 30 * float(os.environ.get("PATIENCE", "2"))
        while True:
            value = self.js(text)
            if value and not str(value).startswith("error: "):
                return value
            if time.monotonic() > end:
                raise RuntimeError("never true: " + text + " (" + str(value) + ")")
            time.sleep(0.05)

    def size(self, width, height):
        self.devtools("Emulation.setDeviceMetricsOverride", width=int(width), height=int(height), deviceScaleFactor=1,
                      mobile=int(width) < 600)

    def scheme(self, name):
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def keys(self, names):
        actions = []
        for name in names:
            for key in KEYS.get(name, name):
                actions += [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self.ask("POST", self.session + "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def shot(self, name):
        self.js("scrollTo(0, 0)")
        png = self.devtools("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        with open(name, "wb") as out:
            out.write(base64.b64decode(png))

    def errors(self):
        return [e["message"] for e in self.ask("POST", self.session + "/se/log", {"type": "browser"})
                if e["level"] in ("SEVERE", "WARNING")]

    def close(self):
        try:
            self.ask("DELETE", self.session)
        except (OSError, AttributeError, RuntimeError):
            pass
        self.driver.terminate()
        self.driver.wait(20)
        shutil.rmtree(self.home, ignore_errors=True)


def obey(browser, verb, rest):
    if verb == "open":
        return browser.ask("POST", browser.session + "/url", {"url": rest})
    if verb == "size":
        return browser.size(*rest.split())
    if verb in ("light", "dark"):
        return browser.scheme(verb)
    if verb == "js":
        return browser.js(rest)
    if verb == "until":
        return browser.until(rest)
    if verb == "keys":
        return browser.keys(rest.split())
    if verb == "shot":
        return browser.shot(rest)
    if verb == "errors":
        return browser.errors()
    raise RuntimeError("unknown command " + verb)


def main():
    browser = Browser()
    try:
        print("ready", flush=True)
        for line in sys.stdin:
            verb, _, rest = line.strip().partition(" ")
            try:
                print(json.dumps(obey(browser, verb, rest)), flush=True)
            except (RuntimeError, OSError) as e:
                print("! " + " ".join(str(e).split())[:600], flush=True)
    finally:
        browser.close()


main()
