"""FANS inside other libraries: each module needs its library, and only when it is imported."""
