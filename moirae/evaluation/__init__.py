"""How good the answers of similarity are: what is judged, by files or by people, and reports of it."""
