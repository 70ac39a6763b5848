from .recognition import IMAGE_SUFFIXES as IMAGE_SUFFIXES, ask_image as ask_image, ask_pdf as ask_pdf
