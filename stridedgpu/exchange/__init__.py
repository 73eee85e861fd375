"""Memory exchange: operands over other libraries' memory, and exports of this library's memory."""
