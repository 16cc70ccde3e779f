"""How Sphinx builds the site: `make docs`. Nothing is fetched."""

import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import tfjac  # noqa: E402
from build_tools.site import links, reference, staging  # noqa: E402

project, author, copyright = "tfjac", "the authors of tfjac", "the authors of tfjac"
release = version = tfjac.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinx-mathjax-offline",
]
root_doc = "index"
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_static/**", "gallery/**.ipynb", "gallery/**.py", "gallery/**.json", "gallery/**.md5"]
suppress_warnings = ["config.cache"]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4
default_role = "code"  # docstrings write code between single backticks
napoleon_use_ivar = True
add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # signatures are taken from the source
python_maximum_signature_line_length = 80

html_theme = "pydata_sphinx_theme"
html_title = "tfjac"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": False,
    "use_edit_page_button": False,
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_show_sphinx = False
html_show_sourcelink = False
copybutton_exclude = ".linenos, .gp"

sphinx_gallery_conf = {
    "examples_dirs": str(staging.stage_examples(ROOT)),
    "gallery_dirs": "gallery",
    "plot_gallery": "False",  # pictures, output and times are kept: `make gallery` renews them
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "within_subsection_order": "FileNameSortKey",
    "write_computation_times": False,
    "thumbnail_size": (640, 480),
}


def setup(app):
    """Generate the pages of the reference, and point links at files of the repository to the pages made of them."""
    reference.write_pages(pathlib.Path(app.srcdir) / "reference" / "api")
    links.write_pages_of_repository(ROOT)
    app.connect("source-read", links.to_pages)
    app.connect("autodoc-process-signature", reference.signature_as_written)
    app.connect("autodoc-process-docstring", reference.tidy_docstring, priority=100)
