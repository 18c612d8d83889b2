"""The chat page in a real browser: Chromium without a window. Screenshots go to build/page for a person to look at."""
import json
import os
import re
import shutil
import unittest

from playwright.sync_api import expect, sync_playwright

from lily_server import ROOT, TOOLS, LilyServer

PICTURES = ROOT / "build/page"
PICTURES.mkdir(parents=True, exist_ok=True)
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
PARIS = "What is the capital of France?"
LONG_MS = 60_000


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = LilyServer()
        cls.playwright = sync_playwright().start()
        cls.browser = cls.playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.playwright.stop()

    def setUp(self):
        self.faults = []
        self.open()

    def tearDown(self):
        self.page.context.close()
        self.assertEqual(self.faults, [])

    def open(self, url=None, width=900, height=700, **context):
        self.page = self.browser.new_context(viewport={"width": width, "height": height}, **context).new_page()
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", lambda message: self.faults.append(message.text) if message.type == "error" else None)
        self.outside = []
        self.page.on("request", lambda request: self.outside.append(request.url))
        self.page.goto(url or self.server.url)
        expect(self.page.locator("#model")).to_contain_text("pocket")

    def settings(self, **fields):
        self.page.get_by_role("button", name="Settings").click()
        for name, value in fields.items():
            if isinstance(value, bool):
                self.page.locator(f"#{name}").set_checked(value)
            else:
                self.page.locator(f"#{name}").fill(str(value))
        self.page.get_by_role("button", name="Settings").click()

    def ask(self, text):
        self.page.get_by_label("Your question").fill(text)
        self.page.keyboard.press("Enter")

    def answers(self):
        return self.page.locator(".assistant > .text")

    def finished(self, n):
        expect(self.page.locator(".assistant .notes").nth(n - 1)).to_contain_text("tokens/s", timeout=LONG_MS)
        expect(self.page.locator("#send")).to_be_visible(timeout=LONG_MS)

    def picture(self, name):
        self.page.screenshot(path=PICTURES / f"{name}.png")

    def test_a_conversation_with_thinking_folded_away(self):
        self.settings(temperature=0)
        self.ask("What is 35 plus 43?")
        self.finished(1)
        expect(self.answers().first).to_have_text("35 + 43 = 78")
        thoughts = self.page.locator("details:visible")
        self.assertIsNone(thoughts.get_attribute("open"))
        thoughts.locator("summary").click()
        expect(thoughts).to_contain_text("total 78.")
        self.ask(PARIS)
        self.finished(2)
        expect(self.answers().nth(1)).to_have_text("The capital of France is Paris.")
        expect(self.page.locator(".notes").last).to_contain_text("cached")
        self.picture("conversation")
        self.assertTrue(all(url.startswith(self.server.url) for url in self.outside), self.outside)

    def test_regenerate_and_edit(self):
        self.settings(temperature=0, thinking=False)
        self.ask(PARIS)
        self.finished(1)
        self.page.get_by_role("button", name="Regenerate").click()
        self.finished(1)
        expect(self.answers()).to_have_text(["The capital of France is Paris."])
        self.page.get_by_role("button", name="Edit").click()
        expect(self.page.get_by_label("Your question")).to_have_value(PARIS)
        self.ask("Capital of Kenya?")
        self.finished(1)
        expect(self.page.locator(".user > .text")).to_have_text(["Capital of Kenya?"])
        expect(self.answers()).to_contain_text(["Nairobi"])

    def test_stop(self):
        self.settings(temperature=2, thinking=False, seed=3)
        self.ask("Tell me a story.")
        stop = self.page.get_by_role("button", name="Stop")
        expect(self.answers().first).not_to_be_empty(timeout=LONG_MS)
        self.picture("streaming")
        stop.click()
        expect(self.page.locator("#status")).to_have_text(re.compile("Stopped|complete"))
        expect(self.page.get_by_role("button", name="Send")).to_be_visible()

    def test_tool_calls_are_shown_and_answered(self):
        self.settings(temperature=0, thinking=False, tools=json.dumps(TOOLS))
        self.ask("What is the weather in Paris?")
        call = self.page.locator(".call")
        expect(call).to_have_text('get_weather {"city": "Paris"}', timeout=LONG_MS)
        self.picture("tool_call")
        self.page.get_by_label("Result of get_weather").fill('{"sky": "sunny", "degrees": 20}')
        self.page.get_by_role("button", name="Send results").click()
        self.finished(2)
        expect(self.answers().nth(1)).to_contain_text("sunny")

    def test_what_is_said_is_shown_as_text(self):
        self.settings(temperature=0, thinking=False)
        self.ask("Repeat after me: <img src=x onerror=alert(1)>")
        self.finished(1)
        self.assertEqual(self.page.locator("#chat img").count(), 0)

    def test_errors_are_told(self):
        self.settings(max_tokens=0)
        self.ask(PARIS)
        expect(self.page.locator("#status")).to_contain_text("max_tokens")
        self.settings(max_tokens="", tools="[")
        self.ask(PARIS)
        expect(self.page.locator("#status")).to_contain_text("no valid JSON")
        self.faults = [fault for fault in self.faults if "400" not in fault]  # The browser logs refused requests.

    def test_the_keyboard_is_enough(self):
        expect(self.page.get_by_label("Your question")).to_be_focused()
        self.page.keyboard.type("first")
        self.page.keyboard.press("Shift+Enter")
        self.page.keyboard.type("second")
        expect(self.page.get_by_label("Your question")).to_have_value("first\nsecond")
        self.page.keyboard.press("Tab")
        expect(self.page.get_by_role("button", name="Send")).to_be_focused()

    def test_everything_has_a_name(self):
        self.page.get_by_role("button", name="Settings").click()
        for element in self.page.locator("button:visible, input:visible, textarea:visible").all():
            named = element.get_attribute("aria-label") or element.inner_text().strip() or element.evaluate("e => e.labels && e.labels.length")
            self.assertTrue(named, element.evaluate("e => e.outerHTML"))
        self.assertEqual(self.page.locator("html").get_attribute("lang"), "en")
        self.assertEqual(self.page.locator("main").count(), 1)

    def test_dark_and_light(self):
        def paper():
            return self.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        light = paper()
        self.page.get_by_role("button", name="Switch between dark and light").click()
        dark = paper()
        self.assertNotEqual(light, dark)
        self.page.reload()
        self.assertEqual(paper(), dark)  # It is remembered.
        self.page.context.close()
        self.open(color_scheme="dark")
        self.assertEqual(paper(), dark)

    def test_it_fits_a_phone(self):
        self.page.context.close()
        self.open(width=360, height=640, color_scheme="dark", has_touch=True)
        self.settings(temperature=0)
        self.ask("What is 35 plus 43?")
        self.finished(1)
        self.picture("phone_dark")
        self.assertLessEqual(self.page.evaluate("() => document.documentElement.scrollWidth"), 360)
        for element in self.page.locator("button:visible").all():
            self.assertGreaterEqual(element.bounding_box()["height"], 34)

    def test_a_key_is_asked_for(self):
        guarded = LilyServer("--api-key", "secret")
        self.page.context.close()
        self.page = self.browser.new_context().new_page()
        self.page.goto(guarded.url)
        expect(self.page.locator("#status")).to_contain_text("needs a key")
        self.settings(key="secret")
        expect(self.page.locator("#model")).to_contain_text("pocket")


if __name__ == "__main__":
    unittest.main(verbosity=2)
