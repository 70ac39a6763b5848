from .data import (
    get_table as get_table,
    get_text as get_text,
    get_texts as get_texts,
    read_json as read_json,
    read_python as read_python,
    read_toml as read_toml,
    read_yaml as read_yaml,
)
from .globs import compile_glob as compile_glob, is_ignored as is_ignored, matches as matches
from .literals import COMPUTED as COMPUTED, read_constant as read_constant, read_exported as read_exported
from .place import (
    PAGES as PAGES,
    Folder as Folder,
    Generator as Generator,
    Includes as Includes,
    Place as Place,
    Source as Source,
    below as below,
    eleventy_slug as eleventy_slug,
    github_slug as github_slug,
    hugo_path as hugo_path,
    hugo_slug as hugo_slug,
    jekyll_slug as jekyll_slug,
    left_out as left_out,
    split_name as split_name,
    to_order as to_order,
)
