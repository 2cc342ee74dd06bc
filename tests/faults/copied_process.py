"""Imported first by the process of which copies are made, and only there: it ends with the tests.

By itself it would not: each copy has the pipe whose end it waits for.
"""

from tests.parent import end_with_parent

end_with_parent()
