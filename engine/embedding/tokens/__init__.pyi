from .tokenizer import Tokenizer as Tokenizer, open_tokenizer as open_tokenizer
from .unigram import NMT as NMT
