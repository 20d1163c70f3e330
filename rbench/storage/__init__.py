"""What lasts: records and outcomes of RUNs (`runs`), weights in the cache (`weights`), and checks of both."""
