# SPDX-License-Identifier: Apache-2.0
"""Whether a program that should be there still is: by its words now and then, and by its services in the graph."""

from __future__ import annotations

import math


class Presence:
    """Judges one program by what is known of it. Times are those of one monotonic clock, s.

    Parameters
    ----------
    silence_s : for so long a program may say nothing once it was heard, s
    vanished_s : for so long its services may not be listed, s
    replaced_s : for so long what speaks under its name may contradict what is known of it, s

    Attributes
    ----------
    lost : it was found gone, and has not been heard since :meth:`back`
    """

    def __init__(self, silence_s: float, vanished_s: float, replaced_s: float = math.inf) -> None:
        self._silence_s, self._vanished_s, self._replaced_s = silence_s, vanished_s, replaced_s
        self._heard_s = -math.inf
        self._unseen_since_s = self._another_since_s = math.inf
        self.lost = False

    def heard(self, now_s: float, *, same: bool = True) -> None:
        """It reported or answered something.

        Parameters
        ----------
        now_s : s
        same : what it reports can come from the program that was there
        """
        self._heard_s = now_s
        self._another_since_s = math.inf if same else min(self._another_since_s, now_s)

    def back(self) -> None:
        """It counts as being there again."""
        self.lost = False

    def ask_again(self, now_s: float) -> None:
        """The judge was away itself: nobody's silence until now counts.

        Parameters
        ----------
        now_s : s
        """
        if self._heard_s > -math.inf:
            self._heard_s = now_s
        self._unseen_since_s = self._another_since_s = math.inf

    def lose(self, now_s: float, *, listed: bool) -> bool:
        """Whether it is found gone now, for the first time.

        Parameters
        ----------
        now_s : s
        listed : its services are there
        """
        self._unseen_since_s = math.inf if listed else min(self._unseen_since_s, now_s)
        silent = self._heard_s > -math.inf and now_s - self._heard_s > self._silence_s
        replaced = self._heard_s - self._another_since_s > self._replaced_s
        if self.lost or not (silent or replaced or now_s - self._unseen_since_s > self._vanished_s):
            return False
        self.lost, self._heard_s, self._another_since_s = True, -math.inf, math.inf
        return True
