"""Settings of a site."""

project = "Mill"
extensions = ["myst_parser"]
exclude_patterns = ["_build", "parts", "drafts/*.rst"]
html_baseurl = "https://mill.example.org/en/latest/"
html_theme = "alabaster"
