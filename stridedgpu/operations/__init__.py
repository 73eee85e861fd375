"""Operations on operands (buffer, layout, element type): check arguments, make a plan, hand it to the device."""
