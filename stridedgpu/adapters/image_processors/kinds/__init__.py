"""The classes of image and video processors that are reproduced: tables of their defaults and rules."""
