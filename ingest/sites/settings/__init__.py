"""What a generator's module is made of: settings read as data, paths, patterns, slugs, and the place of a file.

Use it to read configuration files without executing anything. It knows no generator.
"""
