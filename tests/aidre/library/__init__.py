"""Programs that say `import aidre` and open a store."""
