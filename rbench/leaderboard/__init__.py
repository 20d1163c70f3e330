"""The leaderboard: many RUNs as static pages (`rbench site`)."""
