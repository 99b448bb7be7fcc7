"""JSON over HTTP between processes of one machine: what gateway, warehouse, shop and demo share."""
