from shop.models.catalogue import Product, Stock
from shop.models.delivery import Shipment
from shop.models.order import Order, OrderLine, OrderStatus, RefusalReason
from shop.models.payment import Payment
from shop.models.report import DailyReport
from shop.models.reservation import Reservation

__all__ = [
    "DailyReport",
    "Order",
    "OrderLine",
    "OrderStatus",
    "Payment",
    "Product",
    "RefusalReason",
    "Reservation",
    "Shipment",
    "Stock",
]
