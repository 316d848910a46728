def up() -> None:
    """x"""
