"""Build the site without a warning, follow its links, and look at its pages in a browser.

    python -m build_tools.site [--pictures FOLDER]

Nothing is fetched. Without a Chromium the last part is left out, and a line says so.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys

from build_tools.site import browser, links

ROOT = pathlib.Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "site"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=pathlib.Path, help="folder for what the browser shows")
    options = parser.parse_args()
    shutil.rmtree(SITE, ignore_errors=True)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", str(ROOT / "docs"), str(SITE)]
    if subprocess.run(command, cwd=ROOT).returncode:
        return 1
    faults = [f"link leads nowhere: {line}" for line in links.broken_links(SITE)]
    print(f"{len(links.pages_of(SITE))} pages in {SITE.relative_to(ROOT)}; links followed")
    chromium = browser.find_browser()
    if chromium is None:
        print("NOT DONE: pages were not looked at, for there is no Chromium (Debian: apt-get install chromium)")
    else:
        faults += browser.faults_of_pages(SITE, chromium, options.pictures)
        print(f"pages looked at, {' and '.join(f'{width} pixels wide' for width in browser.WIDTHS.values())}")
    print(*faults, sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
