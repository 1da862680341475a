from .rule import Rule as Vanilla

__all__ = ["Vanilla"]
