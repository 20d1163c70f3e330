"""Say which differences between encoders hold: paired comparisons of what attacks stored."""
