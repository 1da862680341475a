"""Thin adapters to other people's loops. Each needs its extra, and none is imported by `import adaptivek`."""
