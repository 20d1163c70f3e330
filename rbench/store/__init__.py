"""Keep what jobs make: records and outcomes of RUNs (`runs`) and weights in the cache (`weights`); check both."""
