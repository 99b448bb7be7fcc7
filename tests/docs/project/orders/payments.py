"""The payment service of the examples."""


def charge(order_id: int, key: str) -> str:
    return f"charge of {order_id}"


def is_open() -> bool:
    return True
