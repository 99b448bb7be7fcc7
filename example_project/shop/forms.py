from __future__ import annotations

import secrets

from django import forms

from shop.fulfilment.stock import SHIPPING_FEES
from shop.models import Product
from shop.ordering import LineRequest, OrderRequest


class OrderForm(forms.Form):
    """One product for one person; the card is a token such as a payment provider's card form hands out."""

    product = forms.ModelChoiceField(Product.objects.all(), to_field_name="sku", empty_label=None)
    quantity = forms.IntegerField(min_value=1, max_value=1000, initial=1)
    customer = forms.CharField(max_length=100, initial="Ada Example")
    email = forms.EmailField(initial="ada@example.com")
    country = forms.ChoiceField(choices=[(code, code) for code in SHIPPING_FEES], initial="DE")
    card_token = forms.ChoiceField(
        label="Card", choices=[("tok_visa_4242", "a good card"), ("tok_visa_0002", "a card that is declined")]
    )

    def to_request(self) -> OrderRequest:
        data = self.cleaned_data
        line = LineRequest(data["product"].sku, data["quantity"], data["product"].price)
        return OrderRequest(
            # The number opens the order's page without a login, so nobody may guess it.
            number=f"W-{secrets.token_hex(8)}",
            customer=data["customer"],
            email=data["email"],
            country=data["country"],
            card_token=data["card_token"],
            lines=(line,),
        )
