from maxk_lab.report.drawing.picture import Picture
from maxk_lab.report.drawing.style import finish, panels


def figures(found, summary):
    if found.rows:
        figure, axes = panels(1, 1, (4.0, 3.0))
        axes[0][0].plot([row.key.k for row in found.rows], [row.largest[0] for row in found.rows])
        finish(figure, axes, "The largest of k dice")
        yield Picture("dice", figure, "The largest of k dice")
