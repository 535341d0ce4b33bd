"""Notes as their owner reads them."""


def texts(notes):
    return [str(note) for note in notes]
