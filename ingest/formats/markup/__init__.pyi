from .code import CODE_SUFFIXES as CODE_SUFFIXES
from .mdx import is_mdx as is_mdx, strip_mdx as strip_mdx
from .notebook import read_notebook as read_notebook
from .text_writer import TextWriter as TextWriter, to_line as to_line
