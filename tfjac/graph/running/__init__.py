"""How what is built here is carried out: functions, loops, side by side, and what is checked and said when it runs."""
