//! Single damages, and what a start makes of each.
