turn("wheel")
