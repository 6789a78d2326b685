"""A scene for the ray tracer tachyon: spheres above a floor, two lights.

    scene.py SPHERES PIXELS
"""

import sys

HEAD = """Begin_Scene
Resolution {0} {0}
Camera Zoom 1.0 Aspectratio 1.0 Antialiasing 0 Raydepth 4
  Center 0.0 0.0 -12.0 Viewdir 0 0 1 Updir 0 1 0 End_Camera
Light Center 6 8 -8 Rad 0.2 Color 1 1 1
Light Center -6 8 -8 Rad 0.2 Color 0.5 0.5 0.5
Background 0.1 0.2 0.3
Texdef shiny Ambient 0.1 Diffuse 0.7 Specular 0.2 Opacity 1 Color 0.9 0.4 0.2 TexFunc 0
Plane Center 0 -5 0 Normal 0 1 0 Texture Ambient 0.1 Diffuse 0.9 Specular 0 Opacity 1
  Color 0.8 0.8 0.8 TexFunc 0"""


def main():
    spheres, pixels = int(sys.argv[1]), int(sys.argv[2])
    print(HEAD.format(pixels))
    # Steps that share no factor with the grid: the same scene each time, and no two spheres alike.
    for i in range(spheres):
        x, y, z = i * 7919 % 1000 / 100 - 5, i * 104729 % 1000 / 100 - 5, i * 1299709 % 1000 / 125
        print(f"Sphere Center {x:.3f} {y:.3f} {z:.3f} Rad 0.08 shiny")
    print("End_Scene")


main()
