"""What serves many collections and many replicas: the catalog, packs of small publications, retention, lazy caches.

Publishers and replicas use it. One publication, and what signs it, are of `engine/maintenance`.
"""
