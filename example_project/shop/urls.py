from django.urls import path

from shop import api, views

app_name = "shop"

urlpatterns = [
    path("", views.shop_window, name="window"),
    path("orders/<str:number>/", views.order_page, name="order"),
    path("orders/<str:number>/cancel/", views.cancel_order, name="cancel"),
    path("api/orders/", api.orders, name="api_orders"),
    path("api/orders/<str:number>/", api.order, name="api_order"),
    path("api/orders/<str:number>/cancel/", api.cancel, name="api_cancel"),
    path("webhooks/packed/", api.packed, name="packed"),
]
