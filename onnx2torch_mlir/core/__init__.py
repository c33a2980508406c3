"""The waist: the closed list of core primitives, the program builder, and values with what is known of their contents."""
