"""Operations on operands (buffer, layout, element type): check arguments, plan, launch on the device."""
