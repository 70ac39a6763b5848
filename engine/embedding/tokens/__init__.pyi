from .tokenizer import NMT as NMT, Tokenizer as Tokenizer, open_tokenizer as open_tokenizer
