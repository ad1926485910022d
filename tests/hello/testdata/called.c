// SPDX-License-Identifier: MIT

void called(float f, int *filled, int n, long number);

void called(float f, int *filled, int n, long number)
{
	filled[0] = (int)(f * 4);
	filled[1] = (int)number;
	filled[2] = n;
}
