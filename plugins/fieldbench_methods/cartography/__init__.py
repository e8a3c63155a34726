"""Radio cartography with a learned prior: Nasdac and DowJons (Shrestha, Fu, Hong, IEEE TSP 2022)."""
