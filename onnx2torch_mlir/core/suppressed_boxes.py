"""The named part ``suppressed_boxes``: boxes chosen by score, each taking out those that it overlaps too much.

Its operands: ``scores`` [N, C, B] (float32, minus infinity where a box may not be chosen), ``limit`` (int64, of rank 0: so many
are chosen of each class at most), ``threshold`` (float32, of rank 0), and the lowest and the highest coordinates along both
axes: four of [N, 1, B]. It gives, int64 [N, C, places], the boxes chosen of each class, counted from 1, best first, then zeros;
of equal scores the first box is better. The overlap of two boxes is their intersection over their union, as float32; without
area there is none.
"""

from __future__ import annotations

NAME = "suppressed_boxes"
