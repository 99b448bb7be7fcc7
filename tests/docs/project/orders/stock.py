"""The shelves of the examples."""


def reserve(order_id: int) -> None:
    return None


def release(order_id: int) -> None:
    return None
