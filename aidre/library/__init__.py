"""What is the library? A store in a folder, its collections, and the verbs that read and write them."""
