"""Pages as a browser shows them: pictures, formulas, and no page wider than the screen, on a phone neither."""

import functools
import http.server
import pathlib
import shutil
import threading

from build_tools.site.links import pages_of

WIDTHS = {"desktop": 1280, "phone": 390}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FAULTS = """() => {
  const faults = [];
  for (const image of document.querySelectorAll("article img"))
    if (!image.complete || image.naturalWidth === 0) faults.push("picture does not show: " + image.src);
  const formulas = document.querySelectorAll("article .math").length;
  const shown = document.querySelectorAll("article .math mjx-container").length;
  if (shown < formulas) faults.push(`${formulas - shown} of ${formulas} formulas do not show`);
  for (const error of document.querySelectorAll("mjx-merror, [data-mjx-error]"))
    faults.push("formula is wrong: " + (error.getAttribute("data-mjx-error") || error.textContent));
  const screen = window.innerWidth + 1;
  const scrolls = (element) => element.closest("pre, table, mjx-container");
  for (const element of document.querySelectorAll("article *"))
    if (element.getBoundingClientRect().right > screen && !scrolls(element))
      faults.push("sticks out of the screen: " + element.outerHTML.slice(0, 80));
  if (document.documentElement.scrollWidth > screen) faults.push("the page is wider than the screen");
  return faults;
}"""


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


def find_browser() -> str | None:
    """Return the path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def faults_of_pages(site: pathlib.Path, browser: str, pictures: pathlib.Path | None = None) -> list[str]:
    """Open every page at each width; return what is wrong, one line each.

    Args:
        site: folder of the pages.
        browser: path of a Chromium.
        pictures: folder for a picture of each page at each width, or None.
    """
    from playwright.sync_api import sync_playwright

    handler = functools.partial(_Quiet, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    found = []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = chromium.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(f"script fails: {error}"))
        page.on("requestfailed", lambda request: errors.append(f"cannot be loaded: {request.url}"))
        for path in pages_of(site):
            name = path.relative_to(site).as_posix()
            page.goto(f"http://127.0.0.1:{server.server_port}/{name}", wait_until="load")
            page.evaluate("() => window.MathJax?.startup?.promise")
            for device, width in WIDTHS.items():
                page.set_viewport_size({"width": width, "height": 900})
                page.evaluate("() => document.querySelectorAll('img[loading]').forEach(i => i.loading = 'eager')")
                found += [f"{name} ({device}): {fault}" for fault in [*page.evaluate(FAULTS), *errors]]
                errors.clear()
                if pictures is not None:
                    pictures.mkdir(parents=True, exist_ok=True)
                    page.screenshot(path=pictures / f"{name.replace('/', '-')}.{device}.png")
        chromium.close()
    server.shutdown()
    return found
