"""What there is, in words and pictures, without an import of its own."""

import stridedgpu as sg

layout = sg.Layout((2, 3), (5, 1))
tensor = sg.zeros((1, 3, 4, 5), "uint8", layout="NHWC", device="cpu")
drawn: list[str] = [sg.picture.text(layout, dims="HW"), sg.picture.svg(tensor), sg.picture.html(tensor.desc, title="t")]
drawn += [device.description if device.available else device.reason or "" for device in sg.devices()]
sg.set_verbose(False)
assert all(isinstance(text, str) for text in drawn)
assert tensor.describe()
